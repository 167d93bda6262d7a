from django.urls import path

from sandboxes.api import views

urlpatterns = [path("limits", views.LimitList.as_view())]
